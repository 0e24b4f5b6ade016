import type { NextConfig } from "next";

export default { basePath: "/below" } satisfies NextConfig;
