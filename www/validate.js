// Checks a value against a JSON Schema, for the playground: the keywords that most schemas use.

import { fill, locale, texts } from "./texts.js";

const TEXTS = texts.schema;

/** @type {Record<string, (value: any, wanted: any, schema: any, root: any, path: string) => string[]>} */
const KEYWORDS = {
  type: (value, wanted, _schema, _root, path) => {
    const types = [wanted].flat();
    const or = new Intl.ListFormat(locale, { type: "disjunction" });
    return unless(
      types.some((type) => isA(value, type)),
      TEXTS.type,
      { path, types: or.format(types) },
    );
  },
  enum: (value, wanted, _schema, _root, path) =>
    unless(
      wanted.some((/** @type {any} */ one) => same(one, value)),
      TEXTS.enum,
      { path },
    ),
  const: (value, wanted, _schema, _root, path) => unless(same(wanted, value), TEXTS.const, { path }),
  minimum: (value, limit, _schema, _root, path) => ofNumber(value, value >= limit, TEXTS.minimum, { path, limit }),
  maximum: (value, limit, _schema, _root, path) => ofNumber(value, value <= limit, TEXTS.maximum, { path, limit }),
  exclusiveMinimum: (value, limit, _schema, _root, path) =>
    ofNumber(value, value > limit, TEXTS.exclusiveMinimum, { path, limit }),
  exclusiveMaximum: (value, limit, _schema, _root, path) =>
    ofNumber(value, value < limit, TEXTS.exclusiveMaximum, { path, limit }),
  minLength: (value, limit, _schema, _root, path) => ofText(value, (n) => n >= limit, TEXTS.minLength, { path, limit }),
  maxLength: (value, limit, _schema, _root, path) => ofText(value, (n) => n <= limit, TEXTS.maxLength, { path, limit }),
  pattern: (value, pattern, _schema, _root, path) =>
    unless(typeof value !== "string" || new RegExp(pattern, "u").test(value), TEXTS.pattern, { path, pattern }),
  minItems: (value, limit, _schema, _root, path) =>
    unless(!Array.isArray(value) || value.length >= limit, TEXTS.minItems, { path, limit }),
  maxItems: (value, limit, _schema, _root, path) =>
    unless(!Array.isArray(value) || value.length <= limit, TEXTS.maxItems, { path, limit }),
  items: (value, schema, _schema, root, path) =>
    Array.isArray(value) ? value.flatMap((item, i) => problems(item, schema, root, `${path}[${i}]`)) : [],
  required: (value, names, _schema, _root, path) =>
    isA(value, "object")
      ? names.flatMap((/** @type {string} */ name) =>
          unless(Object.hasOwn(value, name), TEXTS.required, { path: `${path}.${name}` }),
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
      TEXTS.anyOf,
      { path },
    ),
  oneOf: (value, schemas, _schema, root, path) =>
    unless(
      schemas.filter((/** @type {any} */ one) => problems(value, one, root, path).length === 0).length === 1,
      TEXTS.oneOf,
      { path },
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
export function problems(value, schema, root = schema, path = TEXTS.answer) {
  if (typeof schema === "boolean") return unless(schema, TEXTS.forbidden, { path });
  return Object.entries(schema).flatMap(([keyword, wanted]) => {
    if (NOTES.includes(keyword)) return [];
    const check = KEYWORDS[keyword];
    if (!check) throw new Error(fill(TEXTS.keyword, { keyword }));
    return check(value, wanted, schema, root, path);
  });
}

/**
 * @param {boolean} right
 * @param {string} problem
 * @param {Record<string, string | number>} values
 */
function unless(right, problem, values) {
  return right ? [] : [fill(problem, values)];
}

/**
 * @param {any} value
 * @param {boolean} right
 * @param {string} problem
 * @param {Record<string, string | number>} values
 */
function ofNumber(value, right, problem, values) {
  return unless(typeof value !== "number" || right, problem, values);
}

/**
 * @param {any} value
 * @param {(length: number) => boolean} right of its characters
 * @param {string} problem
 * @param {Record<string, string | number>} values
 */
function ofText(value, right, problem, values) {
  return unless(typeof value !== "string" || right([...value].length), problem, values);
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
  if (!name.startsWith("#") || found === undefined) throw new Error(fill(TEXTS.reference, { name }));
  return found;
}
