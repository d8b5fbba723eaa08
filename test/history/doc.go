// Package history records what watches deliver and checks it against what was
// written: one validator for each guarantee of a watch.
//
// A test follows etcd itself (Follow), which gives the truth; reads each watch
// with a Reader into a Watch; and passes both to Validate at the end. The
// validators know nothing of the server and need no order of time between the
// two: a revision is all that connects them. What bytes a frame has is not
// checked here.
package history
