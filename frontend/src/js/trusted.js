// The one policy that the content policy allows: HTML comes from our own server, which escapes what
// tenants wrote; scripts made of text, and scripts from other addresses, stay refused.
if (window.trustedTypes) {
  window.trustedTypes.createPolicy("default", { createHTML: (html) => html });
}
