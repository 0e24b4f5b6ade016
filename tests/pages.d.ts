// What pages of the tests and examples have beside what browsers give: elements, which are global by their
// ids, and what a test's own script has put there. A test that needs more says so here.
type Any = any;

declare var Engine: typeof import("tabloom").Engine;
declare var Rendered: Any;
declare var TabloomChat: typeof import("tabloom/element").TabloomChat;
declare var engine: Any;
declare var failure: (promise: Promise<unknown>) => Promise<string>;
declare const form: HTMLFormElement;
declare const question: HTMLInputElement;
declare const output: HTMLOutputElement & HTMLTableElement;
