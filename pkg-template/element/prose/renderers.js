/**
 * Makes nodes of code; null leaves the text as it is.
 *
 * @callback CodeRenderer
 * @param {string} text
 * @param {string} language as the model named it, or empty
 * @returns {Node | null | Promise<Node | null>}
 */

/**
 * Makes nodes of a formula; null leaves the text as it is.
 *
 * @callback MathRenderer
 * @param {string} tex
 * @param {boolean} display whether it stands by itself, and not in a line of text
 * @returns {Node | null | Promise<Node | null>}
 */

/**
 * What a page brings for what the element shows as text: none of it is needed, and each is asked once, for a
 * text that is final.
 *
 * @type {{code: CodeRenderer | null, math: MathRenderer | null}}
 */
export const RENDERERS = { code: null, math: null };
