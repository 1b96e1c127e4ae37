// SPDX-License-Identifier: Apache-2.0

// Package localissuer issues service account tokens where there is no API server: real JSON web tokens with the claims of
// Kubernetes, signed with a key of one's own, which whoever is to accept them checks with [Issuer.JWKS].
//
//	issuer, err := localissuer.New(localissuer.Options{Issuer: "https://edge.example.com", ServiceAccounts: store.ServiceAccount})
//	host.Tokens = issuer
package localissuer
