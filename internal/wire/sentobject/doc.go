// Package sentobject reads objects as an API server sends them, and writes them again with
// another resource version. It is for callers that send objects on as they came. A server
// of another version may have fields that the types of this program do not know. So the
// package decodes no object. It looks at the resource version, and at an annotation, the labels
// and the UID if it is asked for them.
//
// There are two formats, JSON and protobuf. In both, an object alone has its kind and version
// around it, and the same object in a list has not. The texts and messages must come from an
// API server. What the package finds in others has no meaning, but it does not read beyond
// their end. Callers must have another way to answer for objects that it refuses. The package
// is not for what a client sends.
package sentobject
