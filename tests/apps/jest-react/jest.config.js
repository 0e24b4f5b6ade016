export default { testEnvironment: "jsdom", preset: "ts-jest/presets/default-esm" };
