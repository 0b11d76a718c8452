// Package jinja renders chat templates: the part of Jinja2 that model vendors use, with the results of Python's Jinja2 in
// the environment in which the transformers library runs it (immutable sandbox, trim_blocks, lstrip_blocks, loop controls,
// its own tojson, raise_exception, strftime_now and {% generation %}).
//
// Values follow Python: mappings keep their insertion order, str and repr print True, None and 1.0, // and % round down,
// filters such as map and select are lazy and can be read once, and a name is looked up in the scope in which Jinja's
// compiler would place it. A construct that is not supported is an error with its line, never a different text.
//
// A template is untrusted input: the steps, the size of every value and the depth of a render are bounded ([Limits]).
package jinja
