export default defineNuxtConfig({
  app: { baseURL: "/below/" },
  compatibilityDate: "2026-01-01",
  typescript: { strict: true },
  vue: { compilerOptions: { isCustomElement: (tag) => tag === "tabloom-chat" } },
});
