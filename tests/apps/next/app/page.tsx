import { PrivateChat } from "./private-chat";

export default function Page() {
  return <PrivateChat />;
}
