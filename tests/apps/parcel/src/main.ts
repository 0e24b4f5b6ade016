import "tabloom/element";

const chat = document.querySelector("tabloom-chat")!;
chat.addEventListener("tabloom-message", ({ detail }) => {
  document.title = `${detail.message.role}: ${detail.message.content}`;
});
