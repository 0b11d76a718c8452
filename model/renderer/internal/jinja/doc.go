// Package jinja renders chat templates: the part of Jinja2 that model vendors use, with the results
// of Python's Jinja2 in the environment in which the transformers library runs it (immutable
// sandbox, trim_blocks, lstrip_blocks, loop controls, its own tojson, raise_exception, strftime_now
// and {% generation %}).
//
// Values follow Python: mappings keep their insertion order, str and repr print True, None and 1.0,
// // and % round down, filters such as map and select are lazy and can be read once, and a name is
// looked up in the scope in which Jinja's compiler would place it. An unsupported construct is an
// error that names its line; it never renders as different text.
//
// A template is untrusted input: [Limits] bound the steps and the depth of a render and the size of
// every value.
package jinja
