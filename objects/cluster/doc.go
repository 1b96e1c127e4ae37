// SPDX-License-Identifier: Apache-2.0

// Package cluster finds the objects that volumes depend on at an API server, as a node agent should: it watches the objects that
// are asked for, each by its name, and never lists those of a whole cluster.
//
//	source := cluster.New(client, cluster.Options{})
//	defer source.Close()
//	host = source.Fill(host)
//
// What is there is answered from a watch once that has begun, so that an API server that is away does not matter. That something is
// not there is only ever the answer of the API server itself, given to that very question.
//
// The user of the client needs the verbs get, list and watch on the objects by name, or less, see [Options]; create on
// serviceaccounts/token; create, get and watch on podcertificaterequests; get, list and watch on all clustertrustbundles. The
// client's rate limit has to let through one request per object at the start.
//
// A program that has informers already uses [FromListers] instead.
package cluster
