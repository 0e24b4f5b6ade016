/** The package's version; pages of different versions share no host. */
export const VERSION = "0.1.0";

/** The version of the messages between a page and its host. */
export const PROTOCOL = 1;
