import { Engine } from "../../tabloom/index.js";

const engine = await Engine.load("../../model/");
const answer = await engine.chat.completions.create({ messages: [{ role: "user", content: question.textContent }] });
output.textContent = answer.choices[0].message.content;
