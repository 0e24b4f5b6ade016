// Chats of React's libraries, one at a time.
import { createRoot } from "react-dom/client";
import { local } from "./assistant-ui.jsx";
import { direct, own } from "./use-chat.jsx";

/** What makes a chat of an engine and of settings of its requests. */
const chats = { direct, own, local };

let root;

/** Shows a chat in place of the one before. */
export function show(engine, name, settings) {
  root?.unmount();
  root = createRoot(document.body);
  root.render(chats[name](engine, settings));
}
