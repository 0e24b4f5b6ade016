// Checks a value against a JSON Schema, for the playground: the keywords that most schemas use.

/** @type {Record<string, (value: any, wanted: any, schema: any, root: any, path: string) => string[]>} */
const KEYWORDS = {
  type: (value, wanted, _schema, _root, path) =>
    unless(
      [wanted].flat().some((type) => isA(value, type)),
      path,
      `is not ${[wanted].flat().join(" or ")}`,
    ),
  enum: (value, wanted, _schema, _root, path) =>
    unless(
      wanted.some((/** @type {any} */ one) => same(one, value)),
      path,
      "is none of the values",
    ),
  const: (value, wanted, _schema, _root, path) => unless(same(wanted, value), path, "is another value"),
  minimum: (value, least, _schema, _root, path) => ofNumber(value, value >= least, path, `is below ${least}`),
  maximum: (value, most, _schema, _root, path) => ofNumber(value, value <= most, path, `is above ${most}`),
  exclusiveMinimum: (value, least, _schema, _root, path) =>
    ofNumber(value, value > least, path, `is not above ${least}`),
  exclusiveMaximum: (value, most, _schema, _root, path) => ofNumber(value, value < most, path, `is not below ${most}`),
  minLength: (value, least, _schema, _root, path) => ofText(value, (n) => n >= least, path, `is shorter than ${least}`),
  maxLength: (value, most, _schema, _root, path) => ofText(value, (n) => n <= most, path, `is longer than ${most}`),
  pattern: (value, pattern, _schema, _root, path) =>
    unless(typeof value !== "string" || new RegExp(pattern, "u").test(value), path, `does not match ${pattern}`),
  minItems: (value, least, _schema, _root, path) =>
    unless(!Array.isArray(value) || value.length >= least, path, `has fewer than ${least} items`),
  maxItems: (value, most, _schema, _root, path) =>
    unless(!Array.isArray(value) || value.length <= most, path, `has more than ${most} items`),
  items: (value, schema, _schema, root, path) =>
    Array.isArray(value) ? value.flatMap((item, i) => problems(item, schema, root, `${path}[${i}]`)) : [],
  required: (value, names, _schema, _root, path) =>
    isA(value, "object")
      ? names.flatMap((/** @type {string} */ name) =>
          unless(Object.hasOwn(value, name), `${path}.${name}`, "is missing"),
        )
      : [],
  properties: (value, schemas, _schema, root, path) =>
    isA(value, "object")
      ? Object.keys(schemas)
          .filter((name) => Object.hasOwn(value, name))
          .flatMap((name) => problems(value[name], schemas[name], root, `${path}.${name}`))
      : [],
  additionalProperties: (value, schema, { properties = {} }, root, path) =>
    isA(value, "object")
      ? Object.keys(value)
          .filter((name) => !Object.hasOwn(properties, name))
          .flatMap((name) => problems(value[name], schema, root, `${path}.${name}`))
      : [],
  anyOf: (value, schemas, _schema, root, path) =>
    unless(
      schemas.some((/** @type {any} */ one) => problems(value, one, root, path).length === 0),
      path,
      "fits none of anyOf",
    ),
  oneOf: (value, schemas, _schema, root, path) =>
    unless(
      schemas.filter((/** @type {any} */ one) => problems(value, one, root, path).length === 0).length === 1,
      path,
      "does not fit exactly one of oneOf",
    ),
  allOf: (value, schemas, _schema, root, path) =>
    schemas.flatMap((/** @type {any} */ one) => problems(value, one, root, path)),
  $ref: (value, name, _schema, root, path) => problems(value, definition(root, name), root, path),
};

/** Keywords that say nothing about values. */
const NOTES = ["$schema", "$id", "$defs", "definitions", "$comment", "title", "description", "default", "examples"];

/**
 * What is wrong with a value, by a schema: empty if nothing is. Throws where the schema has a keyword
 * that is not known here.
 *
 * @param {any} value
 * @param {any} schema
 * @param {any} [root] what references are within
 * @param {string} [path] where the value is
 * @returns {string[]}
 */
export function problems(value, schema, root = schema, path = "answer") {
  if (typeof schema === "boolean") return unless(schema, path, "is not allowed");
  return Object.entries(schema).flatMap(([keyword, wanted]) => {
    if (NOTES.includes(keyword)) return [];
    const check = KEYWORDS[keyword];
    if (!check) throw new Error(`the page does not know the keyword ${keyword}`);
    return check(value, wanted, schema, root, path);
  });
}

/**
 * @param {boolean} right
 * @param {string} path
 * @param {string} problem
 */
function unless(right, path, problem) {
  return right ? [] : [`${path} ${problem}`];
}

/**
 * @param {any} value
 * @param {boolean} right
 * @param {string} path
 * @param {string} problem
 */
function ofNumber(value, right, path, problem) {
  return unless(typeof value !== "number" || right, path, problem);
}

/**
 * @param {any} value
 * @param {(length: number) => boolean} right of its characters
 * @param {string} path
 * @param {string} problem
 */
function ofText(value, right, path, problem) {
  return unless(typeof value !== "string" || right([...value].length), path, problem);
}

/**
 * @param {any} value
 * @param {string} type
 */
function isA(value, type) {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/**
 * @param {any} a
 * @param {any} b
 * @returns {boolean}
 */
function same(a, b) {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  const [names, others] = [Object.keys(a), Object.keys(b)];
  const alike = Array.isArray(a) === Array.isArray(b) && names.length === others.length;
  return alike && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]));
}

/**
 * @param {any} root
 * @param {string} name as in `#/$defs/item`
 */
function definition(root, name) {
  const parts = name.replace(/^#\/?/, "").split("/").filter(Boolean);
  const found = parts.reduce((schema, part) => schema?.[part.replace(/~1/g, "/").replace(/~0/g, "~")], root);
  if (!name.startsWith("#") || found === undefined) throw new Error(`the schema has no ${name}`);
  return found;
}
