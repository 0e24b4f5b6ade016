// Numbers: those that JSON lacks, and those of messages.

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

/**
 * Numbers what one side of a channel says, and lets it hear the other's next message only. Browsers may lose some: in
 * WebKit another network process takes over where the one that carried them has ended.
 *
 * @param {BroadcastChannel} channel without listeners that are to hear the other side alone
 * @param {"asked" | "said"} mine the field of its numbers, by a page and by a host
 * @param {"asked" | "said"} theirs
 * @param {() => void} lost called when a message has not come
 */
export function number(channel, mine, theirs, lost) {
  let [sent, heard] = [0, 0];
  const post = channel.postMessage.bind(channel);
  channel.postMessage = (message) => {
    // Throws what cannot be sent.
    post({ ...message, [mine]: sent + 1 });
    sent += 1;
  };
  channel.addEventListener("message", (event) => {
    const number = event.data?.[theirs];
    if (number === heard + 1) {
      heard += 1;
      // The host refuses what it does not know.
      delete event.data[theirs];
      return;
    }
    event.stopImmediatePropagation();
    if (number > heard) lost();
  });
}
