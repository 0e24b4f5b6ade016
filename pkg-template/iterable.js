/**
 * The stream, to be read by `for await` in every browser: no Safari has that for streams.
 *
 * @template T
 * @param {ReadableStream<T>} stream
 */
export function iterable(stream) {
  if (!(Symbol.asyncIterator in stream)) Object.defineProperty(stream, Symbol.asyncIterator, { value: pieces });
  return stream;
}

/**
 * @template T
 * @this {ReadableStream<T>}
 */
async function* pieces() {
  const reader = this.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    // Does nothing to a stream that has ended.
    const cancelled = reader.cancel();
    reader.releaseLock();
    await cancelled;
  }
}
