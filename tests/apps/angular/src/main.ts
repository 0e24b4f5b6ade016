import { CUSTOM_ELEMENTS_SCHEMA, Component, signal } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";
import "tabloom/element";

@Component({
  selector: "app-root",
  schemas: [CUSTOM_ELEMENTS_SCHEMA],
  template: `
    <h1>{{ ready() ? "Ready" : "A private chat" }}</h1>
    <tabloom-chat model="models/my-model/" device="cpu" temperature="0" worker-url="tabloom/worker.js" (tabloom-ready)="ready.set(true)" />
  `,
})
class App {
  readonly ready = signal(false);
}

bootstrapApplication(App).catch((error) => console.error(error));
