// Package clusterprofile describes a cluster in numbers: how many objects of each resource there
// are, how large they are, and how many of them a namespace, a node or a value of a label
// has. An audit log has none of this, and the cost of a LIST follows from it.
//
// Capture measures a cluster. Without a profile, the caller fills Resource with what a log
// tells, and the sizes are those of DefaultBytes. A profile has names of resources and
// labels, but no values of labels, no names of objects and no data.
package clusterprofile
