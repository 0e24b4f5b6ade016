import { defineConfig } from "vite";
import { VitePWA } from "vite-plugin-pwa";

export default defineConfig({
  plugins: [
    VitePWA({
      registerType: "autoUpdate",
      manifest: { name: "A private chat" },
      workbox: { globPatterns: ["**/*.{js,css,html,wasm}"], maximumFileSizeToCacheInBytes: 4e6 },
    }),
  ],
});
