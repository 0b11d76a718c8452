// Package sandbox runs programs that nobody has read, such as code that a model wrote.
//
// A program runs as a child process. On Linux that child is a started copy of this binary, which
// confines itself and then becomes the program, so no code of the program runs unconfined. The
// layers are: namespaces with a root directory of their own, Landlock, seccomp, resource limits, and
// a control group where this process may make one. [Layers] tries them.
//
// [Full] isolation needs namespaces, Landlock and seccomp. [Best] takes those that work, and
// [Sandbox.Lacks] says what is missing. [None] starts the program as this user, with its limits of
// time and output; on other systems than Linux it is the only isolation.
package sandbox
