import "tabloom/element";
import worker from "tabloom/worker?worker&url";

const policy = window.trustedTypes?.createPolicy("app", { createScriptURL: (url) => url });
const chat = document.createElement("tabloom-chat");
chat.model = "/models/my-model/";
chat.device = "cpu";
chat.temperature = 0;
chat.workerUrl = policy?.createScriptURL(worker) ?? worker;
document.body.append(chat);
