form.onsubmit = async (event) => {
  event.preventDefault();
  output.textContent = "…";
  const { answer, error } = await chrome.runtime.sendMessage({ to: "background", question: question.value });
  output.textContent = answer ?? error;
};
