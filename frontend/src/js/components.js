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

// A list with marks: buttons wait until one is set, the box on top sets those of the page.
export function marks() {
  return {
    count: 0,
    init() {
      this.changed();
    },
    get isNone() {
      return this.count === 0;
    },
    toggleAll() {
      for (const each of boxes(this.$root)) each.checked = this.$el.checked;
      this.changed();
    },
    changed() {
      this.count = boxes(this.$root).filter((each) => each.checked).length;
    },
  };
}

function boxes(form) {
  return [...form.querySelectorAll("tbody input[type=checkbox]")];
}
