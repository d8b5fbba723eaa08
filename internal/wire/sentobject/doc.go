// Package sentobject reads objects as an API server sends them, and writes them again with
// another resource version. It is for callers that send objects on as they came. A server
// of another version may have fields that the types of this program do not know. So the
// package looks at nothing else of an object, and decodes nothing.
//
// There are two formats, JSON and protobuf. In both, an object alone has its kind and version
// around it, and the same object in a list has not. The texts and messages must come from
// an API server. What is found in others has no meaning, but is not read beyond its end.
// Callers must have another way to answer for what is refused. The package is not for what
// a client sends.
package sentobject
