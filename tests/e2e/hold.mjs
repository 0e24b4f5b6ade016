// Answers that stop in the middle until a test lets them go on, however fast the machine is.

/** Runs in the page before its own scripts: while answers are held, only their first words reach the page. */
function install() {
  const FIRST = 15;
  const begun = new Map();
  /** @type {{id: number, deliver: () => void}[]} */
  const waiting = [];
  let held = false;
  globalThis.holdAnswers = (hold) => {
    held = hold;
    if (!hold) for (const { deliver } of waiting.splice(0)) deliver();
  };

  /** Whether a message is to wait: a piece beyond the first words, or what follows one. */
  function waits({ type, id, value }) {
    if (waiting.some((message) => message.id === id)) return true;
    if (!held || type !== "chunk") return false;
    const length = begun.get(id) ?? 0;
    begun.set(id, length + (value.choices[0]?.delta?.content?.length ?? 0));
    return length >= FIRST;
  }

  for (const { prototype } of [MessagePort, BroadcastChannel]) {
    const onmessage = Object.getOwnPropertyDescriptor(prototype, "onmessage");
    Object.defineProperty(prototype, "onmessage", {
      ...onmessage,
      set(listener) {
        const take = (event) => {
          const deliver = () => listener.call(this, event);
          if (waits(event.data)) waiting.push({ id: event.data.id, deliver });
          else deliver();
        };
        onmessage.set.call(this, listener && take);
      },
    });
  }
}

/** Makes answers in a page that is opened later such that they can be held. */
export const holdable = (page) => page.addInitScript(install);

/** From now on only the first words of an answer reach the page. */
export const holdAnswers = (page) => page.evaluate(() => holdAnswers(true));

/** Lets the page have what was held, and all that comes. */
export const releaseAnswers = (page) => page.evaluate(() => holdAnswers(false));
