// Answers that stop in the middle until a test lets them go on, however fast the machine is.

/** Runs in the page before its own scripts: while answers are held, only their first words reach the page. */
function install() {
  const begun = new Map();
  /** @type {{data: any, deliver: () => void}[]} */
  let waiting = [];
  let most = Infinity;
  globalThis.holdAnswers = (characters) => {
    most = characters;
    const all = waiting;
    waiting = [];
    for (const message of all) give(message);
  };

  function give(message) {
    if (waits(message.data)) waiting.push(message);
    else message.deliver();
  }

  /** Whether a message is to wait: a piece beyond the first words, or what follows one; others' data may be null. */
  function waits(data) {
    const { type, id, value } = data ?? {};
    if (waiting.some(({ data }) => data.id === id)) return true;
    if (type !== "chunk") return false;
    const length = begun.get(id) ?? 0;
    if (length >= most) return true;
    begun.set(id, length + (value.choices[0]?.delta?.content?.length ?? 0));
    return false;
  }

  for (const { prototype } of [MessagePort, BroadcastChannel]) {
    const onmessage = Object.getOwnPropertyDescriptor(prototype, "onmessage");
    Object.defineProperty(prototype, "onmessage", {
      ...onmessage,
      set(listener) {
        const take = (event) => give({ data: event.data, deliver: () => listener.call(this, event) });
        onmessage.set.call(this, listener && take);
      },
    });
  }
}

/** Makes answers in a page that is opened later such that they can be held. */
export const holdable = (page) => page.addInitScript(install);

/** From now on only so many characters of an answer reach the page, to the end of a piece. */
export const holdAnswers = (page, characters = 15) =>
  page.evaluate((characters) => holdAnswers(characters), characters);

/** Lets the page have what was held, and all that comes. */
export const releaseAnswers = (page) => page.evaluate(() => holdAnswers(Infinity));
