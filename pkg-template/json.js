/**
 * A value as JSON. Numbers that JSON lacks become strings, so that the engine refuses them.
 *
 * @param {unknown} value
 */
export function toJson(value) {
  return JSON.stringify(value, (_, value) => {
    const lacking = typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
    return lacking ? `${value}` : value;
  });
}
