import { useEffect, useState } from "react";
import { Engine } from "tabloom";

/**
 * The engine of a model while the component is there: `{ engine, progress, error }`, as far as there
 * are such. Components that name the same model share it, and so do tabs.
 *
 * @param {string} model
 * @returns {{engine?: Engine, progress?: import("tabloom").Progress, error?: Error}}
 */
export function useEngine(model) {
  const [state, setState] = useState(/** @type {ReturnType<typeof useEngine>} */ ({}));
  useEffect(() => {
    const gone = new AbortController();
    const { signal } = gone;
    const show = (/** @type {ReturnType<typeof useEngine>} */ state) => signal.aborted || setState(state);
    const loading = Engine.load(model, { signal, onProgress: (progress) => show({ progress }) });
    loading.then(
      (engine) => show({ engine }),
      (error) => show({ error }),
    );
    return () => {
      gone.abort();
      setState({});
      loading.then(
        (engine) => engine.close(),
        () => {},
      );
    };
  }, [model]);
  return state;
}
