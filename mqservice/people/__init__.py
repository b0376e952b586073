"""How users sign up, in and out, and what protects that: allauth with our own rules."""
