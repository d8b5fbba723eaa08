// Package clusterprofile describes a cluster in numbers. A profile has the number and the sizes of
// each resource's objects, and how many of them a namespace, a node or a value of a label has. The
// cost of a LIST follows from these numbers, which an audit log does not have.
//
// Capture measures a cluster. Without a profile the caller fills Resource with the counts of a
// log, and SetDefaults adds usual sizes. A profile has names of resources and labels. It has no
// values of labels, no names of objects and no data.
package clusterprofile
