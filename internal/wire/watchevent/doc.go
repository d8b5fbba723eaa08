// Package watchevent finds the events in the body of a watch, and the type and the resource
// version of each, without decoding it. It also finds single fields of objects, in JSON and in
// protobuf.
package watchevent
