import resolve from "@rollup/plugin-node-resolve";
import typescript from "@rollup/plugin-typescript";

export default {
  input: "main.ts",
  output: { dir: "dist", format: "es" },
  plugins: [resolve(), typescript({ noEmitOnError: true })],
};
