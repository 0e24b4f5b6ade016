// Creates sessions.
import { whenAborted } from "../abort.js";
import { expectActivation, expectAllowed, isAllowed } from "./browser-rules.js";
import { coreOptionsOf, createOptionsOf } from "./convert.js";
import { notLoaded, unsupported } from "./errors.js";
import { messagesOf, whole } from "./input.js";
import { watched } from "./monitor.js";
import { expectKinds, setupOf } from "./options.js";
import { LanguageModelSession } from "./session.js";

/** @import { LanguageModelAvailability } from "../types.js" */
/** @import { Engine } from "./session.js" */

/**
 * The model behind a `LanguageModel`. `load` tells how much is loaded, from 0 to 1.
 *
 * @typedef {object} Model
 * @property {(progress: (loaded: number) => void, signal?: AbortSignal) => Promise<Engine>} load
 * @property {() => Promise<LanguageModelAvailability>} availability
 * @property {boolean} [browserRules] whether pages are refused what browsers refuse them
 */

/**
 * Begins a session, an instance of `LanguageModel`.
 *
 * @param {Function} LanguageModel
 * @param {Model} model
 * @param {unknown} given
 * @returns {Promise<any>}
 */
export async function create(LanguageModel, model, given) {
  const { browserRules } = model;
  const options = createOptionsOf(given, browserRules);
  const { signal, monitor, initialPrompts } = options;
  signal?.throwIfAborted();
  const setup = setupOf(options);
  const initial = initialPrompts.length > 0 ? whole(messagesOf(initialPrompts, setup.inputs, false)) : [];
  if (browserRules) expectAllowed();
  const progress = watched(monitor, signal);
  expectKinds(options);
  const load = async () => {
    if (browserRules) await expectActivation(model, signal);
    return model.load(progress, signal);
  };
  const engine = await load().catch((error) => {
    throw notLoaded(error);
  });
  expectModel(engine);
  progress(0);
  // The page may abort for what it is told.
  if (monitor) await new Promise((resolve) => setTimeout(resolve));
  signal?.throwIfAborted();
  progress(1);
  // The class was made before its methods were loaded.
  Object.setPrototypeOf(LanguageModel.prototype, LanguageModelSession.prototype);
  const memory = { initial, turns: [], usage: 0 };
  const session = Reflect.construct(LanguageModelSession, [engine, setup, memory], LanguageModel);
  if (signal) whenAborted(signal, () => session.end(signal.reason));
  await session.begin();
  return session;
}

/**
 * Whether {@link create} would succeed with these options, now or after a download; rejects with what is no option of
 * the API.
 *
 * @param {Model} model
 * @param {unknown} given
 */
export async function availability(model, given) {
  const { browserRules } = model;
  const options = coreOptionsOf(given, browserRules);
  try {
    setupOf(options);
    expectKinds(options);
  } catch {
    return "unavailable";
  }
  return browserRules && !isAllowed() ? "unavailable" : model.availability();
}

/**
 * Throws where only a fallback answers: a session's answers could not say that a server gave them.
 *
 * @param {Engine} engine
 */
function expectModel({ info }) {
  if (info.device !== "none") return;
  const reason = info.fallback?.reason;
  throw unsupported(`found no model on this device (${reason}), expected one: ask engine.chat.completions`);
}
