// A client of `memwell serve`. generate.py writes this file from the server's OpenAPI document.

// types

/** An error that the server answered with. */
export class MemwellError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly param: string | null = null,
    readonly code: string | null = null,
  ) {
    super(message)
    this.name = "MemwellError"
  }
}

export interface ClientOptions {
  /** The address of the server. */
  url?: string
  /** `memwell serve token local` prints the owner's. */
  token?: string
}

type Query = Record<string, string | number | boolean | null | undefined>

/** A memory behind `memwell serve`. */
export class MemwellClient {
  #url: string
  #token: string

  constructor({ url = "http://127.0.0.1:8765", token = "" }: ClientOptions = {}) {
    this.#url = url.replace(/\/+$/, "")
    this.#token = token
  }

  // methods

  async #send<T>(
    method: string,
    path: string,
    { body, query = {} }: { body?: unknown; query?: Query },
  ): Promise<T> {
    const address = new URL(this.#url + path)
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) address.searchParams.set(name, String(value))
    }
    const headers: Record<string, string> = {}
    if (this.#token) headers["authorization"] = `Bearer ${this.#token}`
    if (body !== undefined) headers["content-type"] = "application/json"
    const response = await fetch(address, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = (response.headers.get("content-type") ?? "").includes("json")
    if (response.ok) return (isJson ? JSON.parse(text) : text) as T
    const error = isJson ? JSON.parse(text).error : { message: text || response.statusText }
    throw new MemwellError(response.status, error.message, error.param, error.code)
  }
}
