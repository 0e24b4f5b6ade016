// A mark in the tab while it loads models. A page that finds one died in a load, and began anew.

const KEY = "tabloom loading";

/** Loads in progress. */
let loads = 0;
let found = change((storage) => storage.getItem(KEY)) !== undefined;

// A page that is left does not die.
globalThis.addEventListener?.("pagehide", clear);

/** Whether the tab's page died while it loaded a model, and no load has ended since. */
export function interrupted() {
  return found;
}

/** Marks the tab until the function that it gives is called. */
export function mark() {
  loads += 1;
  change((storage) => storage.setItem(KEY, ""));
  return () => {
    loads -= 1;
    if (loads === 0) clear();
    found = false;
  };
}

function clear() {
  change((storage) => storage.removeItem(KEY));
}

/**
 * @param {(storage: Storage) => unknown} how
 * @returns what it gives, undefined where the browser denies storage
 */
function change(how) {
  try {
    return how(sessionStorage) ?? undefined;
  } catch {
    return undefined;
  }
}
