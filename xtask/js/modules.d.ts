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
declare module "*/tabloom/element/texts/index.js" {
  export * from "tabloom/element/texts/index.js";
}
declare module "*/tabloom/json.js" {
  export * from "tabloom/json.js";
}
declare module "*/tabloom/models/address.js" {
  export * from "tabloom/models/address.js";
}
declare module "*/tabloom/models/registry.js" {
  export * from "tabloom/models/registry.js";
}
declare module "*/tabloom/version.js" {
  export * from "tabloom/version.js";
}
declare module "*/tabloom/worker.js";
declare module "*/npm/lowlight.js" {
  export * from "lowlight";
}
declare module "*/npm/temml.js" {
  export { default } from "temml";
}
// wasm-bindgen writes the types of these; building the package checks the worker against them.
declare module "*/wasm/tabloom.js" {
  export default function init(): Promise<unknown>;
  export class Host {
    constructor(environment: object);
    connect(port: MessagePort): void;
  }
}
declare module "*/wasm/grammar.js" {
  export default function init(): Promise<unknown>;
  export class Grammars {
    constructor(...tokens: unknown[]);
  }
  export function __wbg_reset_state(): void;
}
// These come without types.
declare module "compression" {
  type Handler = (
    request: import("node:http").IncomingMessage,
    response: import("node:http").ServerResponse,
    next: () => void,
  ) => void;
  type Filter = (...of: [import("node:http").IncomingMessage, import("node:http").ServerResponse]) => boolean;
  export default function compression(options: { filter: Filter }): Handler;
}
declare module "@custom-elements-manifest/analyzer/cli.js" {
  interface Entry {
    name: string;
    description: string;
    fieldName?: string;
    privacy?: string;
  }
  type Kind = "members" | "events" | "attributes" | "slots" | "cssParts" | "cssProperties" | "cssStates";
  type Declaration = Record<Kind, Entry[]> & { superclass: { name: string } };
  export function cli(options: { argv: string[]; cwd: string; noWrite: boolean }): Promise<{
    modules: { declarations: Declaration[] }[];
  }>;
}
