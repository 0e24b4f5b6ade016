export { common, createLowlight } from "lowlight";
