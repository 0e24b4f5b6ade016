import { PrivateChat } from "./private-chat";

export default function Page() {
  return (
    <main>
      <h1>A private chat</h1>
      <PrivateChat />
    </main>
  );
}
