/**
 * Resolves when an element is first shown: what only its view needs can wait until then.
 *
 * @param {Element} element
 * @returns {Promise<void>}
 */
export function shown(element) {
  return new Promise((resolve) => {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      resolve();
    });
    observer.observe(element);
  });
}
