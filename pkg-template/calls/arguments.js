// What a page passes to a call: copied as JSON would send it, and options by name. All else is refused before
// anything is loaded or asked.

/** The names of the options of `Engine.load`. */
export const OF_LOAD =
  "onProgress signal workerUrl host isolation fallback persist registry quantisation hub draft budgetBytes device store quantize context kv kvBytes prefixCache slidingWindow speculation gpu integrity crossOriginStorage";

/** Why they are refused. */
export const refusal = () => import("./refusal.js");

/** Most levels of a value, and characters of it as JSON: the engine reads little more. */
const [LEVELS, LONGEST] = [100, 20_000_000];

/**
 * What `use` makes of a copy of an object, which it gets at once: proxies become what they stand for, functions are
 * left out, and numbers that JSON lacks become strings, which the engine refuses. Rejects where a value is no JSON,
 * or is what JSON would make an empty object of, such as a Map; and names the place.
 *
 * @template R
 * @param {object} value
 * @param {(copy: any) => R | Promise<R>} use
 * @returns {Promise<R>}
 */
export async function plain(value, use) {
  let copy;
  try {
    copy = copied(value);
    if (Object.getPrototypeOf(copy) !== Object.prototype) throw copy;
  } catch (error) {
    throw (await refusal()).noJson(value, error, copied);
  }
  return use(copy);
}

/** @param {unknown} value */
function copied(value) {
  const text = JSON.stringify(value, (_, it) => {
    // Of what can be iterated, JSON knows lists and texts, which have this method.
    if (it?.[Symbol.iterator] && !it.concat) throw new RangeError();
    return typeof it === "number" && !Number.isFinite(it) ? `${it}` : it;
  });
  if (text?.length > LONGEST) throw new RangeError(`more than ${LONGEST} characters`);
  const copy = JSON.parse(text ?? null);
  if (isDeeper(copy, LEVELS)) throw new RangeError(`more than ${LEVELS} levels`);
  return copy;
}

/** @type {(value: any, levels: number) => boolean} */
const isDeeper = (value, levels) =>
  Object(value) === value && (!levels || Object.values(value).some((inner) => isDeeper(inner, levels - 1)));

/**
 * A rejected promise where there are options of other names, a signal that is none, or what cannot be read; null if
 * all is well.
 *
 * @param {any} options
 * @param {string} names of those that there are, with blanks between them
 * @returns {Promise<never> | null}
 */
export function misused(options, names) {
  const known = names.split(" ");
  try {
    const isKnown = (/** @type {string} */ name) => options[name] === undefined || known.includes(name);
    const signal = options?.signal;
    if (Object.keys(options ?? {}).every(isKnown) && (signal == null || signal.throwIfAborted)) return null;
  } catch {
    // What is wrong is looked for again, to be named.
  }
  return refusal().then(({ wrongOption }) => {
    throw wrongOption(options, known);
  });
}
