// A frame that loads the model when told to.
import { Engine } from "./tabloom/index.js";

globalThis.chat = async (params, options) => {
  globalThis.engine = await Engine.load("model/", { device: "cpu", ...options });
  const { choices } = await engine.chat.completions.create(params);
  return { host: engine.host, text: choices[0].message.content };
};

globalThis.refused = (options) =>
  Engine.load("model/", { device: "cpu", ...options }).then(
    () => "no failure",
    ({ name, code, message }) => ({ name, code, message }),
  );
