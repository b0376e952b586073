// Alpine components; the CSP build takes no expressions, only these names.

// A button that can be pressed once the name was typed.
export function typedName() {
  return {
    typed: "",
    get isWrong() {
      return this.typed !== this.$root.dataset.name;
    },
  };
}

// A message that goes by itself; errors stay.
export function toast() {
  return {
    isShown: true,
    init() {
      if (!this.$root.matches(".toast-error")) setTimeout(() => this.close(), 6000);
    },
    close() {
      this.isShown = false;
    },
  };
}
