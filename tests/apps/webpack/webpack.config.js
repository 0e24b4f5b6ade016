module.exports = {
  entry: "./src/main.ts",
  module: { rules: [{ test: /\.ts$/, use: "ts-loader", exclude: /node_modules/ }] },
};
