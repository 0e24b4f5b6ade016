export default defineNuxtConfig({
  compatibilityDate: "2026-01-01",
  typescript: { strict: true },
  vue: { compilerOptions: { isCustomElement: (tag) => tag === "tabloom-chat" } },
});
