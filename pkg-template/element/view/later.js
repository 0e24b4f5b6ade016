// The English texts of what is loaded when it is first needed: what is loading, is copied, waits, takes long, is
// attached, dictated or deleted, and what went wrong.
import { TEXTS } from "../texts.js";

const LATER = {
  /** How numbers are written. */
  locale: "en",
  copied: "Copied",
  notCopied: "The browser did not let it be copied",
  next: "Waiting: “{question}”",
  connecting: "Starting…",
  download: "Loading the model",
  compile: "Preparing the model",
  pondering: "Thinking…",
  cleared: "The conversation is deleted.",
  undo: "Undo",
  unkept: "The browser’s storage is full or denied: this conversation will not be here after a reload.",
  attachments: "Attached",
  attached: "{name} is attached",
  detach: "Remove {name}",
  pasted: "Pasted text",
  asText: "Turn back into text",
  drop: "Drop text files here",
  characters: "Characters: {count}",
  tokens: "Tokens: {count}",
  noText: "{name} has no text that can be read. Save it as plain text, and attach that.",
  pdf: "{name} is a PDF, which the chat cannot read. Copy its text, and paste it here.",
  picture: "{name} is a picture, which the chat cannot read. Attach text in its place.",
  emptyFile: "{name} is empty. Choose another file.",
  unreadable: "{name} could not be read. Choose it again.",
  tooLong: "{name} is too long: attachments may have {limit} in all. Attach a part of it.",
  over: "Too long: {count} tokens, and the model’s context has {context}. Shorten it.",
  dictate: "Dictate, recognised on this device",
  listening: "Listening",
  notHeard: "The browser did not let you dictate. Let the page use the microphone, and try again.",
  processor: "Use the processor (slow)",
  noGpu:
    "This browser offers no WebGPU, which the model is made for. Use the processor, or a current Chrome, Edge or Safari.",
  interrupted: "The page ended while the model was loading, maybe for lack of memory. Close other tabs, and try again.",
  unfetched: "The model could not be downloaded. Check your connection, and try again.",
  unusable: "The model’s files are damaged, or of a kind that does not run here. Tell whoever runs this site.",
  noChat: "The model is not made for chats. Tell whoever runs this site.",
  noMemory: "This device has too little memory for the model. Close other tabs and apps, and try again.",
  gpuFailed: "The graphics hardware failed. Try again; if it fails again, restart the browser.",
  unstarted: "The engine did not start. Reload the page; if that does not help, tell whoever runs this site.",
  ended: "The engine has stopped. Try again, or reload the page.",
  outgrown: "This is too long for the model. Shorten it, or begin a new chat.",
  crowded: "Too much is asked at once. Wait a moment, and try again.",
  refused: "The chat is set up in a way that does not work. Tell whoever runs this site.",
  unexpected: "Something unexpected happened. Try again, or reload the page.",
};

/** All texts. What a page has set stays. */
export const ALL = Object.assign(TEXTS, { ...LATER, ...TEXTS });
