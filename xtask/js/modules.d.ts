// Modules that only the built package has, and those that lie elsewhere in the repository than on the page.
declare module "*/tabloom/index.js" {
  export * from "tabloom";
}
declare module "*/tabloom/element.js" {
  export * from "tabloom/element";
}
declare module "*/tabloom/element/parts.js" {
  export * from "tabloom/element/parts";
}
declare module "*/tabloom/version.js" {
  export * from "tabloom/version.js";
}
declare module "*/tabloom/worker.js";
// wasm-bindgen writes the types of these; building the package checks the worker against them.
declare module "*/wasm/tabloom.js" {
  export default function init(): Promise<unknown>;
  export class Host {
    constructor(environment: object);
    connect(port: MessagePort): void;
    [method: string]: any;
  }
}
declare module "*/wasm/grammar.js" {
  export default function init(): Promise<unknown>;
  export class Grammars {
    [method: string]: any;
  }
  export function __wbg_reset_state(): void;
}
