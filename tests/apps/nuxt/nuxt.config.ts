export default defineNuxtConfig({
  compatibilityDate: "2026-01-01",
  typescript: { strict: true, typeCheck: "build" },
  vue: { compilerOptions: { isCustomElement: (tag) => tag === "tabloom-chat" } },
});
