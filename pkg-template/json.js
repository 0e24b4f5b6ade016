/**
 * A value as JSON. Numbers that JSON lacks become strings, to be refused rather than overlooked.
 *
 * @param {unknown} value
 */
export function toJson(value) {
  return JSON.stringify(value, (_, value) => {
    const lacking = typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
    return lacking ? `${value}` : value;
  });
}
