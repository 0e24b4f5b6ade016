// What a page passes to a call: copied as JSON would send it, and options by name. All else is refused before
// anything is loaded or asked.
import { kindOf } from "../error.js";

/** @import { Trail } from "./refusal.js" */

/** The options of `Engine.load`, each with the values or kinds that it may have, where not the engine says so. */
export const OF_LOAD =
  "onProgress:Function signal workerUrl host:auto|shared|leader|private isolation:shared|tab|Object fallback:Object persist:Boolean registry:Object quantisation:String hub draft budgetBytes device store:cache|opfs|none quantize context kv kvBytes prefixCache slidingWindow speculation gpu integrity crossOriginStorage:public|all|none";

/** Why they are refused. */
export const refusal = () => import("./refusal.js");

/** Most levels of a value; the engine reads little more. */
const LEVELS = 100;
/** Most characters of it as JSON, with eight for each value in it. */
const LONGEST = 20_000_000;

/**
 * What `use` makes of a copy of an object, which it gets at once: proxies become what they stand for, functions are
 * left out, numbers that JSON lacks become strings, which the engine refuses, and halves of characters U+FFFD. Rejects
 * where a value is no JSON, or is what JSON would make an empty object of, such as a Map; and names the place.
 *
 * @template R
 * @param {object} value
 * @param {(copy: any) => R | Promise<R>} use
 * @returns {Promise<R>}
 */
export async function plain(value, use) {
  /** @type {Trail} */
  const trail = [];
  let left = LONGEST;
  /** @param {unknown} it what JSON has, or leaves out */
  const spent = (it) => {
    const text = JSON.stringify(it);
    left -= `${text}`.length + 8;
    if (left < 0) throw `more than ${LONGEST} characters`;
    return text && it;
  };
  /** @type {(holder: any, name: string | number) => any} */
  const copied = (holder, name) => {
    trail.push([holder, name]);
    let it = holder[name];
    if (typeof it?.toJSON === "function") it = it.toJSON(`${name}`);
    if (typeof it === "string") it = it.toWellFormed();
    if (typeof it === "number" && !Number.isFinite(it)) it = `${it}`;
    const isObject = typeof it === "object" && it;
    /** @type {any} */
    let copy = spent(isObject ? "" : it);
    if (isObject && trail.length > LEVELS) throw `more than ${LEVELS} levels`;
    if (Array.isArray(it)) {
      copy = [];
      for (let i = 0; i < it.length; i++) copy.push(copied(it, i) ?? null);
    } else if (kindOf(it) === "Object" && !it[Symbol.iterator]) {
      copy = Object.fromEntries(Object.keys(it).map((key) => [spent(key.toWellFormed()), copied(it, key)]));
    } else if (isObject) throw kindOf(it);
    trail.pop();
    return copy;
  };
  /** @type {unknown} */
  let copy;
  try {
    copy = copied([value], 0);
    if (kindOf(copy) !== "Object") throw copy;
  } catch (error) {
    throw (await refusal()).noJson(value, trail, error);
  }
  return use(copy);
}

/**
 * What `use` makes of options, which it gets at once, each read once; null stands for what is left out. Rejects where
 * there are others, or of other kinds, or what cannot be read; and names it.
 *
 * @template R
 * @param {any} options
 * @param {string} names of those that there are, with blanks between them, each with the values or kinds that it may have
 * @param {(given: any) => R | Promise<R>} use
 * @returns {Promise<R>}
 */
export async function chosen(options, names, use) {
  /** @type {Map<string, string | undefined>} */
  const known = new Map(names.split(" ").map((name) => /** @type {any} */ (name.split(":"))));
  /** @type {Record<string, unknown>} */
  const given = {};
  let name = "options";
  let value = options ?? {};
  try {
    // A controller has a signal.
    if (!/Object|AbortController/.test(kindOf(value))) throw "";
    for (name of new Set([...Object.keys(value), ...known.keys()])) {
      value = undefined;
      value = options?.[name];
      if (value == null) continue;
      const fits = (/** @type {string} */ kind) => kind === value || kindOf(value).endsWith(kind);
      if (!known.has(name) || known.get(name)?.split("|").some(fits) === false) throw "";
      // Others' signals look like one.
      if (name === "signal") AbortSignal.any([value]);
      given[name] = value;
    }
  } catch (error) {
    throw (await refusal()).wrongOption(name, value, known, error);
  }
  return use(given);
}
